"""How wrong does a logit get whose gates are frozen?"""
