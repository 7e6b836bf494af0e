package relation

// CatalogueEntry returns the application's databag of catalogue (library catalogue_k8s
// catalogue v1, consumer): the page of all workers at url. Without a url each key has an
// empty value, which removes it.
func CatalogueEntry(app, url string) map[string]string {
	bag := map[string]string{"name": "", "url": "", "icon": "", "description": ""}
	if url == "" {
		return bag
	}
	bag["name"], bag["url"], bag["icon"] = "GPUs of "+app, url, "expansion-card" // an icon of Material Design
	bag["description"] = "Workers and GPUs of Concourse: who uses them, what waits, and which GPUs are quarantined"
	return bag
}
