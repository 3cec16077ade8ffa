"""Refusals of AWS that moto lacks: one small function for each rule, with the page of AWS that states it.

Every function raises AWS's error or returns; README.md lists them with their tests.
"""
