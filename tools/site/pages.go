package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// settingsFile is what dist/mkdocs.yml inherits.
const settingsFile = "tools/site/mkdocs.yml"

// settings holds the parts of settingsFile that links depend on.
type settings struct {
	RepoURL string `yaml:"repo_url"`
	SiteURL string `yaml:"site_url"`
}

func readSettings(root string) (s settings, err error) {
	text, err := os.ReadFile(filepath.Join(root, settingsFile))
	if err != nil {
		return s, err
	}
	// The rest of the file has tags that only Python reads.
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "repo_url:") || strings.HasPrefix(line, "site_url:") {
			err = errors.Join(err, yaml.Unmarshal([]byte(line), &s))
		}
	}
	return s, err
}

// projectPages maps pages beside docs/ to their pages of the site.
var projectPages = map[string]string{
	"CHANGELOG.md":               "changelog.md",
	".github/CODE_OF_CONDUCT.md": "code-of-conduct.md",
	"CONTRIBUTING.md":            "contributing.md",
	".github/RELEASING.md":       "releasing.md",
	".github/SECURITY.md":        "security-policy.md",
}

// projectMenu lists these pages in the order of the menu.
var projectMenu = []entry{
	{"Changelog", "changelog.md"},
	{"Contributing", "contributing.md"},
	{"Publish a release", "releasing.md"},
	{"Code of conduct", "code-of-conduct.md"},
	{"Security policy", "security-policy.md"},
}

// prepare writes dist/site-docs and dist/mkdocs.yml. Dates has lines as of
// `git log --format='date %as' --name-only`, the newest commit first.
func prepare(root, version string, dates io.Reader) error {
	s, err := readSettings(root)
	if err != nil {
		return err
	}
	changed, err := readDates(dates)
	if err != nil {
		return err
	}
	out := filepath.Join(root, "dist/site-docs")
	if err := errors.Join(os.RemoveAll(out), os.RemoveAll(filepath.Join(root, "dist/site"))); err != nil {
		return err
	}
	all, err := sources(root)
	if err != nil {
		return err
	}
	for _, from := range slices.Sorted(maps.Keys(all)) {
		text, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			return err
		}
		if path.Ext(from) == ".md" {
			page, err := rewrite(root, from, string(text), s.RepoURL)
			if err != nil {
				return err
			}
			text = []byte("---\nchanged: \"" + changed[from] + "\"\nsource: " + from + "\n---\n" + page)
		}
		to := filepath.Join(out, all[from])
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	config, err := config(root, version, slices.Collect(maps.Values(all)))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "dist/mkdocs.yml"), config, 0o644)
}

// sources maps the files of the repository to their names below dist/site-docs.
func sources(root string) (map[string]string, error) {
	all := maps.Clone(projectPages)
	all["icon.svg"] = "icon.svg"
	docs := filepath.Join(root, "docs")
	return all, filepath.WalkDir(docs, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(docs, p)
		all["docs/"+name] = name
		return err
	})
}

// readDates maps each file to the date of its last change.
func readDates(r io.Reader) (map[string]string, error) {
	dates, at := map[string]string{}, ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if date, ok := strings.CutPrefix(lines.Text(), "date "); ok {
			at = date
		} else if name := lines.Text(); name != "" && dates[name] == "" {
			dates[name] = at
		}
	}
	return dates, lines.Err()
}

var (
	link   = regexp.MustCompile(`(\]\()([^()\s]+)(\))`)
	inCode = regexp.MustCompile("``[^\n]+?``|`[^`\n]+`")
)

// rewrite returns a page with its links as the site needs them: to pages of the site, and
// to the repository for all other files.
func rewrite(root, from, text, repository string) (string, error) {
	var b strings.Builder
	var failed error
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced || strings.HasPrefix(line, "    ") && !strings.HasPrefix(strings.TrimSpace(line), "-") {
			b.WriteString(line)
			continue
		}
		var spans []string // code is hidden from the search for links, and put back
		line = inCode.ReplaceAllStringFunc(line, func(s string) string {
			if strings.HasPrefix(line, "|") { // mkdocs shows the backslash, GitHub does not
				s = strings.ReplaceAll(s, `\|`, "|")
			}
			spans = append(spans, s)
			return "\x00"
		})
		line = link.ReplaceAllStringFunc(line, func(s string) string {
			m := link.FindStringSubmatch(s)
			to, err := target(root, from, m[2], repository)
			failed = errors.Join(failed, err)
			return m[1] + to + m[3]
		})
		for _, s := range spans {
			line = strings.Replace(line, "\x00", s, 1)
		}
		b.WriteString(line)
	}
	return b.String(), failed
}

// target returns a link as the site needs it.
func target(root, from, to, repository string) (string, error) {
	file, anchor, _ := strings.Cut(to, "#")
	if file == "" || strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return to, nil
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	at := path.Join(path.Dir(from), file)
	if _, err := os.Stat(filepath.Join(root, at)); err != nil {
		return to, fmt.Errorf("%s links to %s, which is missing", from, to)
	}
	page, ofDocs := strings.CutPrefix(at, "docs/")
	if name, ok := projectPages[at]; ok {
		page, ofDocs = name, true
	}
	if !ofDocs || path.Ext(page) == "" { // a folder has no page
		return repository + "/blob/main/" + at + anchor, nil
	}
	name, ok := projectPages[from]
	if !ok {
		name = strings.TrimPrefix(from, "docs/")
	}
	rel, err := filepath.Rel(path.Dir(name), page)
	return rel + anchor, err
}

// entry is a page in the menu.
type entry struct{ title, page string }

// section is a part of the menu. Its pages stand in the order of docs/index.md.
type section struct {
	title   string
	entries []entry
}

// menu returns the headings of docs/index.md with the pages below each of them. A page stands
// where the index links to it first.
func menu(index string) (all []section) {
	seen := map[string]bool{}
	named := regexp.MustCompile(`\[([^\]]+)\]\(([\w/-]+\.md)\)`)
	// A link may go over two lines.
	for _, part := range strings.Split("\n"+index, "\n## ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		s := section{title: title}
		for _, m := range named.FindAllStringSubmatch(rest, -1) {
			if !seen[m[2]] {
				seen[m[2]] = true
				s.entries = append(s.entries, entry{strings.Join(strings.Fields(strings.ReplaceAll(m[1], "`", "")), " "), m[2]})
			}
		}
		if len(s.entries) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// config returns dist/mkdocs.yml, which adds the menu and the version to settingsFile.
func config(root, version string, pages []string) ([]byte, error) {
	index, err := os.ReadFile(filepath.Join(root, "docs/index.md"))
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{"index.md": true}
	nav := []any{map[string]string{"Overview": "index.md"}}
	for _, s := range append(menu(string(index)), section{"Project", projectMenu}) {
		var entries []any
		for _, e := range s.entries {
			listed[e.page] = true
			entries = append(entries, map[string]string{e.title: e.page})
		}
		nav = append(nav, map[string]any{s.title: entries})
	}
	for _, page := range pages {
		if path.Ext(page) == ".md" && !listed[page] {
			err = errors.Join(err, fmt.Errorf("docs/index.md does not link to %s", page))
		}
	}
	if err != nil {
		return nil, err
	}
	extra := map[string]string{"release": version}
	return yaml.Marshal(map[string]any{"INHERIT": "../" + settingsFile, "nav": nav, "extra": extra})
}
