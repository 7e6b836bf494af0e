package docs

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pictures maps the drawings of docs/ to their texts, one a line.
func pictures(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs/*/*.svg"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string]string{}
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		name, err := filepath.Rel(root, file)
		require.NoError(t, err)
		all[name], err = drawn(f)
		require.NoError(t, err, name)
		require.NoError(t, f.Close())
	}
	return all
}

// drawn returns the texts of a drawing. It fails if the drawing is not well-formed.
func drawn(r io.Reader) (string, error) {
	var texts strings.Builder
	inText := false
	for d := xml.NewDecoder(r); ; {
		token, err := d.Token()
		if err == io.EOF {
			return texts.String(), nil
		}
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.CharData:
			if inText {
				texts.WriteString(strings.TrimSpace(string(token)) + "\n")
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func TestEachPictureIsOnAPageWithAText(t *testing.T) {
	for name := range pictures(t) {
		found := false
		for page, md := range pages(t) {
			if filepath.Dir(page) == filepath.Dir(name) {
				found = found || regexp.MustCompile(`!\[[^\]]{20,}\]\(`+regexp.QuoteMeta(filepath.Base(name))+`\)`).MatchString(md)
			}
		}
		assert.True(t, found, "%s: no page shows it with a text for readers who cannot see it", name)
	}
	for page, md := range pages(t) {
		assert.NotContains(t, md, "```mermaid", "%s: the site would show the source", page)
	}
}

// The files and ports in the pictures are on the pages that are tested against the code.
func TestPicturesNameWhatIsThere(t *testing.T) {
	files, security := readFile(t, "docs/reference/files.md"), readFile(t, "docs/explanation/security.md")
	var ports []string
	for _, row := range table(security, "port") {
		ports = append(ports, row[0])
	}
	all := strings.Join(ports, " ")
	found := 0
	for name, text := range pictures(t) {
		for _, path := range regexp.MustCompile(`/etc/[\w./-]+`).FindAllString(text, -1) {
			found++
			assert.Contains(t, files, "`"+path+"`", name)
		}
		for _, port := range regexp.MustCompile(`\b\d{4}\b`).FindAllString(text, -1) {
			found++
			assert.Contains(t, all, port, name)
		}
	}
	require.GreaterOrEqual(t, found, 9)
}
