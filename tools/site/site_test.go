package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes files below a new folder, by name.
func tree(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

func small() map[string]string {
	files := map[string]string{
		settingsFile:    "site_url: https://example.com/x/\nrepo_url: https://example.com/r\nodd: !!python/x {}\n",
		"docs/index.md": "# x\n\n## How to\n\n- [Do\n  it](how-to/do.md), see [why](explanation/why.md)\n\n## Explanation\n\n- [Why](explanation/why.md)\n- [More](explanation/more.md)\n",
		"docs/how-to/do.md": "[a](../../Makefile) [b](../explanation/why.md#x) [c](https://example.com) [d](#e) [f](../../.github/SECURITY.md#g) `[h](i)`\n" +
			"```text\n[k](l)\n```\n    [m](n)\n[o](../explanation) ![p](../explanation/p.svg)\n| `a\\|b` | c\\|d |\n",
		"docs/explanation/why.md":  "text\n",
		"docs/explanation/more.md": "text\n",
		"docs/explanation/p.svg":   "<svg/>",
		"icon.svg":                 "<svg/>",
		"Makefile":                 "",
	}
	for name := range projectPages {
		up := strings.Repeat("../", strings.Count(name, "/"))
		files[name] = "[docs](" + up + "docs/how-to/do.md#x) [make](" + up + "Makefile)\n"
	}
	return files
}

func TestLinksLeadToTheSiteOrTheRepository(t *testing.T) {
	dir := tree(t, small())
	require.NoError(t, prepare(dir, "1.2.3", strings.NewReader("date 2026-02-03\n\ndocs/how-to/do.md\n\ndate 2025-01-01\n\ndocs/how-to/do.md\n.github/SECURITY.md\n")))
	page, err := os.ReadFile(filepath.Join(dir, "dist/site-docs/how-to/do.md"))
	require.NoError(t, err)
	require.Equal(t, "---\nchanged: \"2026-02-03\"\nsource: docs/how-to/do.md\n---\n"+
		"[a](https://example.com/r/blob/main/Makefile) [b](../explanation/why.md#x) [c](https://example.com) [d](#e) [f](../security-policy.md#g) `[h](i)`\n"+
		"```text\n[k](l)\n```\n    [m](n)\n[o](https://example.com/r/blob/main/docs/explanation) ![p](../explanation/p.svg)\n| `a|b` | c\\|d |\n", string(page))
	page, err = os.ReadFile(filepath.Join(dir, "dist/site-docs/security-policy.md"))
	require.NoError(t, err)
	require.Equal(t, "---\nchanged: \"2025-01-01\"\nsource: .github/SECURITY.md\n---\n[docs](how-to/do.md#x) [make](https://example.com/r/blob/main/Makefile)\n", string(page))
	config, err := os.ReadFile(filepath.Join(dir, "dist/mkdocs.yml"))
	require.NoError(t, err)
	require.Contains(t, string(config), "release: 1.2.3")
	require.Contains(t, string(config), "Do it: how-to/do.md")
}

func TestAPageOutsideTheIndexOrALinkToNothingFails(t *testing.T) {
	files := small()
	files["docs/how-to/lost.md"] = "text\n"
	require.ErrorContains(t, prepare(tree(t, files), "1", strings.NewReader("")), "does not link to how-to/lost.md")
	files = small()
	files["docs/how-to/do.md"] = "![x](none.png)\n"
	require.ErrorContains(t, prepare(tree(t, files), "1", strings.NewReader("")), "docs/how-to/do.md links to none.png, which is missing")
}

func TestTheMenuHasEachPageOnceInTheOrderOfTheIndex(t *testing.T) {
	require.Equal(t, []section{
		{"How to", []entry{{"Do it", "how-to/do.md"}, {"why", "explanation/why.md"}}},
		{"Explanation", []entry{{"More", "explanation/more.md"}}},
	}, menu(small()["docs/index.md"]))
}

func TestDeadLinksAreFound(t *testing.T) {
	good := map[string]string{
		"index.html":     `<h1 id="a">x</h1><a href="b/#c">x</a><a href="#a">x</a><a href="b/">x</a><a href="https://example.com/y">x</a><img src="p.svg"><link rel="canonical" href="https://example.com/x/">`,
		"b/index.html":   `<a name="c"></a><a href="..">x</a><a href="../index.html#a">x</a>`,
		"404.html":       `<link rel="stylesheet" href="/x/site.css"><a href="/x/b/">x</a>`,
		"site.css":       `a { background: url("p.svg"), url(data:image/png;base64,AA==) }`,
		"p.svg":          "<svg/>",
		"sitemap.xml.gz": "",
	}
	problems, pages, err := check(tree(t, good), "https://example.com/x/")
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, 3, pages)
	for added, want := range map[string]string{
		`<a href="b/#d">x</a>`:                                   "no such anchor",
		`<a href="#d">x</a>`:                                     "no such anchor",
		`<a href="c/">x</a>`:                                     "no such file",
		`<img src="q.svg">`:                                      "no such file",
		`<object data="q.svg"></object>`:                         "no such file",
		`<script src="https://cdn.example.com/x.js"></script>`:   "another server",
		`<link rel="stylesheet" href="//cdn.example.com/x.css">`: "another server",
	} {
		bad := map[string]string{}
		maps.Copy(bad, good)
		bad["index.html"] += added
		problems, _, err := check(tree(t, bad), "https://example.com/x/")
		require.NoError(t, err)
		require.Len(t, problems, 1, added)
		require.Contains(t, problems[0], want)
	}
	good["site.css"] = "a { background: url(q.svg) }"
	problems, _, err = check(tree(t, good), "https://example.com/x/")
	require.NoError(t, err)
	require.Equal(t, []string{"site.css: q.svg: no such file"}, problems)
}
