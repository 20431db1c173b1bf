"""Certificates: does a layer keep its bounds, and do all of its neurons take part?"""
