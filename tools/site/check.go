package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// reference is an address in a file of the site.
type reference struct {
	from, to string
	asset    bool // the browser fetches it with the page
}

// check returns the links and assets of a site that lead nowhere, sorted, and the number of
// its pages. Assets must be files of the site: a page requests nothing from other servers.
func check(dir, siteURL string) (problems []string, pages int, err error) {
	base, err := url.Parse(siteURL)
	if err != nil {
		return nil, 0, err
	}
	anchors, refs := map[string]map[string]bool{}, []reference(nil)
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		switch path.Ext(name) {
		case ".html":
			pages++
			ids, found, err := read(p, name)
			anchors[name], refs = ids, append(refs, found...)
			return err
		case ".css":
			text, err := os.ReadFile(p)
			for _, m := range inCSS.FindAllStringSubmatch(string(text), -1) {
				refs = append(refs, reference{name, m[1], true})
			}
			return err
		}
		anchors[name] = nil
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for _, r := range refs {
		if why := dead(dir, base, anchors, r); why != "" {
			problems = append(problems, fmt.Sprintf("%s: %s: %s", r.from, r.to, why))
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems), pages, nil
}

var inCSS = regexp.MustCompile(`url\(["']?([^"')]+)["']?\)`)

// read returns the anchors of a page and its references.
func read(file, name string) (ids map[string]bool, refs []reference, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	root, err := html.Parse(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, nil, err
	}
	ids = map[string]bool{}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		has := map[string]string{}
		for _, a := range n.Attr {
			has[a.Key] = a.Val
		}
		if id := has["id"]; id != "" {
			ids[id] = true
		}
		if n.Data == "a" && has["name"] != "" {
			ids[has["name"]] = true
		}
		for _, key := range []string{"href", "src", "data"} {
			if to := has[key]; to != "" && has["rel"] != "canonical" {
				refs = append(refs, reference{name, to, n.Data != "a"})
			}
		}
	}
	return ids, refs, nil
}

// dead returns why a reference leads nowhere, or nothing.
func dead(dir string, base *url.URL, anchors map[string]map[string]bool, r reference) string {
	u, err := url.Parse(r.to)
	if err != nil {
		return err.Error()
	}
	switch {
	case u.Scheme == "data":
		return ""
	case u.Host != "" && r.asset:
		return "comes from another server"
	case u.Scheme != "" || u.Host != "":
		return ""
	}
	to := r.from
	if u.Path != "" {
		to = path.Join(path.Dir(r.from), u.Path)
		if rest, ok := strings.CutPrefix(u.Path, base.Path); ok && path.IsAbs(u.Path) { // the page of status 404
			to = path.Join(".", rest)
		}
		if info, err := os.Stat(filepath.Join(dir, to)); err == nil && info.IsDir() {
			to = path.Join(to, "index.html")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, to)); err != nil {
		return "no such file"
	}
	if u.Fragment != "" && path.Ext(to) == ".html" && !anchors[to][u.Fragment] && u.Fragment != "__skip" {
		return "no such anchor"
	}
	return ""
}
