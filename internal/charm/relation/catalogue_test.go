package relation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCatalogueHasAnEntryOnlyForAPage(t *testing.T) {
	require.Equal(t, map[string]string{"name": "GPUs of ci", "url": "http://10.0.0.2:9358/", "icon": "expansion-card",
		"description": "Workers and GPUs of Concourse: who uses them, what waits, and which GPUs are quarantined"},
		CatalogueEntry("ci", "http://10.0.0.2:9358/"))
	require.Equal(t, map[string]string{"name": "", "url": "", "icon": "", "description": ""}, CatalogueEntry("ci", ""))
}
