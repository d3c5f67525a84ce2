"""RDF as text: blocks of a dump, complete documents, and terms; shared by the loaders of full and truthy RDF."""
