"""RDF as text: blocks of a dump, whole documents, and terms. The loaders of full and truthy RDF share it."""
