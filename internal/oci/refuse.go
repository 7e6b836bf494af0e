package oci

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// refuse says why a call fails, where a person can find it: on stderr, and as
// an error line of runc's own form in the file that this call's --log names.
// containerd reads that file after a failed create, and so the text reaches
// the build's output; what is on stderr alone is lost there.
func refuse(stderr io.Writer, c Call, now time.Time, reason error) {
	text := "runc-amd-wrapper: " + reason.Error()
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

func logLine(format, text string, now time.Time) []byte {
	stamp := now.Format(time.RFC3339)
	if format == "json" {
		line, err := encode(struct {
			Level string `json:"level"`
			Msg   string `json:"msg"`
			Time  string `json:"time"`
		}{"error", text, stamp})
		if err == nil {
			return append(line, '\n')
		}
	}
	return fmt.Appendf(nil, "time=%q level=error msg=%s\n", stamp, strconv.Quote(text))
}
