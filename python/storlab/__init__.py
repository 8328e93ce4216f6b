"""storlab: which storage serves a workload better, by how much, and how sure are we?"""
