package exporter

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// options are the command line.
type options struct {
	listen  string
	root    string
	version bool
}

// parse reads the command line. flag.ErrHelp asks for the usage text.
func parse(args []string) (options, *flag.FlagSet, error) {
	var o options
	fs := flag.NewFlagSet("rocm-exporter", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors and usage are the caller's to print
	fs.StringVar(&o.listen, "web.listen-address", ":9401", "`address` to serve on; port 0 takes a free one")
	fs.StringVar(&o.root, "path.root", "/", "`directory` to read as the machine's root")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		return o, fs, err
	}
	if fs.NArg() > 0 {
		return o, fs, fmt.Errorf("unexpected argument: %s", fs.Arg(0))
	}
	return o, fs, nil
}

func usage(w io.Writer, fs *flag.FlagSet) {
	fmt.Fprint(w, `Usage: rocm-exporter [flags]

Serves the state of this machine's AMD GPUs to Prometheus, read from sysfs.
It needs no ROCm and no privilege, and ends with the process that started it.

`)
	fs.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		line := "  --" + f.Name
		if value != "" {
			line += "=" + strings.ToUpper(value)
		}
		if f.DefValue != "" && f.DefValue != "false" {
			text += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "%-34s %s\n", line, text)
	})
	fmt.Fprintf(w, "%-34s %s\n", "  --help", "print this text and exit")
}
