package journeys

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// masks matches values that differ from machine to machine. A page shows examples of them.
var masks = []struct {
	value *regexp.Regexp
	by    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\b\d+d\d+h\b|\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s\b`), "AGE"},
	{regexp.MustCompile(`\b(?:0x)?[0-9a-f]{8,}\b`), "ID"},
	{regexp.MustCompile(`\bgfx[0-9a-f]+(?: gfx[0-9a-f]+)*`), "gfx"}, // of each GPU
	{regexp.MustCompile(`\d+(?:\.\d+)*`), "N"},
	{regexp.MustCompile(`\s+`), " "},
}

// mask replaces the values in a line.
func mask(line string) string {
	for _, m := range masks {
		line = m.value.ReplaceAllString(line, m.by)
	}
	return strings.TrimSpace(line)
}

// difference returns the first line of a page that the output lacks, or "". The lines must be
// in the page's order. In a line of a page, "..." is any text.
func difference(shown, got string) string {
	rest := strings.Split(got, "\n")
	for line := range strings.Lines(shown) {
		want := mask(line)
		if want == "" {
			continue
		}
		like := regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `.*`) + `$`)
		i := 0
		for i < len(rest) && !like.MatchString(mask(rest[i])) {
			i++
		}
		if i == len(rest) {
			return strings.TrimSuffix(line, "\n")
		}
		rest = rest[i+1:]
	}
	return ""
}

func TestValuesOfAShownOutputAreMasked(t *testing.T) {
	got := "first\nactive: ready (v8.2.5) http://10.99.0.10:8080 (GPU: 2x AMD)\n\nworker   ryzen-0-0badcafe\n" +
		"held  GPU 0 (GPU-4be2f10c93d57a68, 0000:03:00.0)\n"
	require.Empty(t, difference("active: ready (v8.2.6) http://192.168.1.20:8080 (GPU: 1x AMD)\n\n"+
		"worker ryzen-0-56bb298e\n", got))
	require.Empty(t, difference("active: ... (GPU: 1x AMD)\n", got))
	require.Empty(t, difference("held  GPU 1 (GPU-0000000000000001, 0000:43:00.0)\n", got))
	require.Equal(t, "active: not ready ...", difference("active: not ready ...\n", got))
	require.Equal(t, "first", difference("worker ryzen-0-56bb298e\nfirst\n", got), "the order matters")
	require.Empty(t, difference("since 12m3s\n", "since 5s"))
}
