package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// every bounds the time in which nothing is shown.
const every = 20 * time.Second

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run starts the command of the arguments. It returns its exit status, 2 if it can't.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("progress", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("json", "", "`file` for the events of go test -json")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(stderr, "progress: cannot run nothing: want progress [-json=FILE] go test -json ...")
		return 2
	}
	keep := io.Discard
	if *file != "" {
		f, err := os.Create(*file)
		if err != nil {
			fmt.Fprintln(stderr, "progress: cannot keep the events:", err)
			return 2
		}
		defer f.Close()
		keep = f
	}
	c := exec.Command(flags.Arg(0), flags.Args()[1:]...)
	c.Stderr = stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		fmt.Fprintln(stderr, "progress: cannot start the tests:", err)
		return 2
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	err = follow(io.TeeReader(out, keep), stdout, ticks.C)
	var exit *exec.ExitError
	switch ended := c.Wait(); {
	case errors.As(ended, &exit):
		return exit.ExitCode()
	case ended != nil:
		err = ended
	}
	if err != nil {
		fmt.Fprintln(stderr, "progress: cannot follow the tests:", err)
		return 2
	}
	return 0
}

// follow shows the events of r to its end, and at each tick what is running.
func follow(r io.Reader, w io.Writer, ticks <-chan time.Time) error {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		defer close(lines)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				lines <- line
			}
			if err != nil {
				if err != io.EOF {
					failed <- err
				}
				return
			}
		}
	}()
	v := view{w: w, packages: map[string]*suite{}}
	for {
		select {
		case line, more := <-lines:
			if !more {
				select {
				case err := <-failed:
					return err
				default:
					return nil
				}
			}
			v.take(line)
		case now := <-ticks:
			v.tick(now)
		}
	}
}
