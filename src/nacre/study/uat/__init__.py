"""Does a wider layer fit a function better?"""
