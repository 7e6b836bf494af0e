NAME = "project"
