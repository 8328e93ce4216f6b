"""Can this machine run the study?"""
