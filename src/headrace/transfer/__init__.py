"""Files and samples between containers: archives, tar, zip, folders, datasets."""
