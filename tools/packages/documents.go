package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/files"
)

// manPages is the folder of man pages, which Debian and Fedora compress.
const manPages = "/usr/share/man/"

// compressPages replaces the man pages of a package by compressed ones in dir.
func compressPages(info *nfpm.Info, dir string) error {
	for _, c := range info.Contents {
		if !strings.HasPrefix(c.Destination, manPages) {
			continue
		}
		text, err := os.ReadFile(c.Source)
		if err != nil {
			return err
		}
		c.Destination += ".gz"
		if c.Source, err = compress(dir, filepath.Base(c.Destination), text); err != nil {
			return err
		}
	}
	return nil
}

// compress writes a compressed file into dir, without a time, and returns its path.
func compress(dir, name string, text []byte) (string, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(text); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	return file, os.WriteFile(file, b.Bytes(), 0o644)
}

// addChangelog adds the changelog of a deb in Debian's form.
func addChangelog(info *nfpm.Info, dir string) error {
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	file, err := compress(dir, "changelog.gz", debianChangelog(string(text), info))
	info.Contents = append(info.Contents, &files.Content{Source: file, Packager: "deb",
		Destination: "/usr/share/doc/" + info.Name + "/changelog.gz", FileInfo: &files.ContentFileInfo{Mode: 0o644}})
	return err
}

// section finds the headings of versions, with the date of a release.
var section = regexp.MustCompile(`(?m)^## \[.*\](?: - (\d{4}-\d\d-\d\d))?$`)

// item finds the beginnings of items and headings.
var item = regexp.MustCompile(`(?m)^(- |### )`)

// debianChangelog returns the newest section of the changelog as an entry of this version.
// An entry of a version without a date has the time of the package's files.
func debianChangelog(text string, info *nfpm.Info) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s (%s) stable; urgency=medium\n\n", info.Name, debianVersion(info))
	at := info.MTime
	if all := section.FindAllStringSubmatchIndex(text, 2); len(all) > 0 {
		if date := all[0]; date[2] >= 0 {
			if released, err := time.Parse(time.DateOnly, text[date[2]:date[3]]); err == nil {
				at = released
			}
		}
		end := len(text)
		if len(all) > 1 {
			end = all[1][0]
		}
		text = text[all[0][1]:end]
	}
	for part := range strings.SplitSeq(item.ReplaceAllString(text, "\n\n$1"), "\n\n") {
		switch words := strings.Fields(part); {
		case len(words) == 0:
		case words[0] == "###":
			fmt.Fprintf(&b, "\n  [ %s ]\n", strings.Join(words[1:], " "))
		default:
			writeItem(&b, strings.Fields(strings.TrimPrefix(part, "- ")))
		}
	}
	fmt.Fprintf(&b, "\n -- %s  %s\n", info.Maintainer, at.Format(time.RFC1123Z))
	return b.Bytes()
}

// writeItem writes words as an item with lines of at most 80 columns.
func writeItem(b *bytes.Buffer, words []string) {
	line := "  *"
	for _, w := range words {
		if len(line)+1+len(w) > 80 {
			fmt.Fprintln(b, line)
			line = "   "
		}
		line += " " + w
	}
	fmt.Fprintln(b, line)
}

// debianVersion returns the version in the form in which nfpm writes it.
func debianVersion(info *nfpm.Info) string {
	v := info.Version
	if info.Prerelease != "" {
		v += "~" + info.Prerelease
	}
	if info.VersionMetadata != "" {
		v += "+" + info.VersionMetadata
	}
	return v
}
