package oci

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/oci/cmdline"
)

// refuse says why a call fails, where a person can find it: on stderr, and as
// an error line of runc's own form in the file that this call's --log names.
// containerd reads that file after a failed create, and so the text reaches
// the build's output; what is on stderr alone is lost there.
func refuse(stderr io.Writer, c *cmdline.Call, now time.Time, reason error) {
	text := "runc-amd-wrapper: " + oneLine(reason.Error())
	fmt.Fprintln(stderr, text)
	if c.Log == "" {
		return
	}
	f, err := os.OpenFile(c.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		fmt.Fprintf(stderr, "runc-amd-wrapper: cannot write the log: %v\n", err)
		return
	}
	defer f.Close()
	if _, err := f.Write(logLine(c.LogFormat, text, now)); err != nil {
		fmt.Fprintf(stderr, "runc-amd-wrapper: cannot write the log: %v\n", err)
	}
}

// oneLine writes control characters as Go does between quotes. They come from
// names of the outside, and the text is one line in a log and on a terminal.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func logLine(format, text string, now time.Time) []byte {
	stamp := now.Format(time.RFC3339)
	if format == "json" {
		line := rawjson.AppendString([]byte(`{"level":"error","msg":`), text)
		line = rawjson.AppendString(append(line, `,"time":`...), stamp)
		return append(line, "}\n"...)
	}
	return fmt.Appendf(nil, "time=%q level=error msg=%s\n", stamp, strconv.Quote(text))
}
