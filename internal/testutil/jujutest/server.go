package jujutest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

type request struct {
	ContextID string
	Argv      []string
	Stdin     []byte
}

type response struct {
	Stdout, Stderr string
	Code           int
}

// Server answers hook-tool commands on a unix socket.
type Server struct {
	listener net.Listener
	wait     sync.WaitGroup
}

// Serve listens on a new unix socket and answers for the hook that current returns, or for
// none if it returns nil. It refuses commands of another hook.
func Serve(socket string, current func() *Context) (*Server, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("cannot serve hook tools: %w", err)
	}
	s := &Server{listener: l}
	s.wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.wait.Go(func() {
				defer conn.Close()
				answer(conn, current)
			})
		}
	})
	return s, nil
}

// Close stops listening, removes the socket and waits for running requests.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.wait.Wait()
	return err
}

func answer(conn net.Conn, current func() *Context) {
	var q request
	if json.NewDecoder(io.LimitReader(conn, 2*maxFile)).Decode(&q) != nil || len(q.Argv) == 0 {
		return
	}
	out := response{Stderr: fmt.Sprintf("ERROR bad request: wrong context ID; got %q\n", q.ContextID), Code: 1}
	if c := current(); c != nil && c.ID == q.ContextID {
		out.Stdout, out.Stderr, out.Code = c.Run(inPeersProc(conn, q.Argv), q.Stdin)
	}
	json.NewEncoder(conn).Encode(out) // a caller that has left needs no answer
}

// inPeersProc resolves a path of /proc after --file from the caller's view. The agent runs
// on the hook's machine, but a stand-in may run outside.
func inPeersProc(conn net.Conn, argv []string) []string {
	at := slices.Index(argv, "--file") + 1
	socket, ok := conn.(*net.UnixConn)
	if !ok || at == 0 || at == len(argv) || !strings.HasPrefix(argv[at], "/proc/") {
		return argv
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return argv
	}
	var peer *unix.Ucred
	if raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED)
	}) != nil || err != nil {
		return argv
	}
	argv = slices.Clone(argv)
	argv[at] = fmt.Sprintf("/proc/%d/root%s", peer.Pid, argv[at])
	return argv
}

// InstallTools links dir/<tool> to the program exe for every hook tool. exe calls ToolMain
// if it is started with such a name.
func InstallTools(dir, exe string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range ToolNames() {
		if err := os.Symlink(exe, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// IsTool reports whether a program with this name must call ToolMain.
func IsTool(arg0 string) bool { return slices.Contains(ToolNames(), filepath.Base(arg0)) }

// ToolMain runs a hook-tool command: it sends the call to the server of
// JUJU_AGENT_SOCKET_ADDRESS for the hook JUJU_CONTEXT_ID, prints the answer and returns the
// exit status. It reads stdin only if the call requests it.
func ToolMain(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	out, err := ask(args, stdin, env)
	if err != nil {
		fmt.Fprintf(stderr, "ERROR %v\n", err)
		return 1
	}
	io.WriteString(stdout, out.Stdout)
	io.WriteString(stderr, out.Stderr)
	return out.Code
}

func ask(args []string, stdin io.Reader, env func(string) string) (out response, err error) {
	for _, name := range []string{"JUJU_CONTEXT_ID", "JUJU_AGENT_SOCKET_ADDRESS"} {
		if env(name) == "" {
			return out, fmt.Errorf("%s not set", name)
		}
	}
	q := request{ContextID: env("JUJU_CONTEXT_ID"), Argv: append([]string{filepath.Base(args[0])}, args[1:]...)}
	if wantsStdin(args) {
		if q.Stdin, err = io.ReadAll(io.LimitReader(stdin, maxFile)); err != nil {
			return out, fmt.Errorf("cannot read stdin: %w", err)
		}
	}
	conn, err := net.Dial("unix", env("JUJU_AGENT_SOCKET_ADDRESS"))
	if err != nil {
		return out, err
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return out, err
	}
	return out, json.NewDecoder(conn).Decode(&out)
}

// wantsStdin searches for --file - in both spellings.
func wantsStdin(args []string) bool {
	k := slices.Index(args, "--file")
	return slices.Contains(args, "--file=-") || k >= 0 && k+1 < len(args) && args[k+1] == "-"
}
