package watchdog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// limit is the watchdog's in the programs of these tests: long enough for a
// busy machine, which would end the one that should live on.
const limit = 1600 * time.Millisecond

// answers are checked at every quarter of the limit: more than once over it.
const answers = checksInLimit + 2

// stuck is when a test gives up.
const stuck = time.Minute

// TestMain is the program that is watched when it is started as `test watched <how>`. It
// reports each check that it answered.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "watched" {
		err := watched(os.Args[2])
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func watched(how string) error {
	say := func(format string, v ...any) { fmt.Printf(format+"\n", v...) }
	w, err := Start(limit)
	if err != nil {
		return err
	}
	if how == "silent" {
		time.Sleep(stuck)
		return errors.New("it was not ended")
	}
	checks := 0
	w.Watch(func(time.Duration) error {
		if checks++; checks <= answers || how == "well" {
			fmt.Println("answered", checks)
			return nil
		}
		if how == "blocked" {
			time.Sleep(stuck) // and no select{}, at which Go itself ends the program
		}
		return errors.New("no answer")
	}, say)
	return errors.New("it returned")
}

// run starts the program and returns it with what it prints.
func run(t *testing.T, how string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "watched", how)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, bufio.NewReader(out)
}

// killed waits for the end and wants it to be SIGKILL, which no one here sends.
func killed(t *testing.T, cmd *exec.Cmd, out io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, status.Signaled(), string(text))
	require.Equal(t, syscall.SIGKILL, status.Signal())
	return string(text)
}

func TestProgramThatAnswersLivesOn(t *testing.T) {
	cmd, out := run(t, "well")
	for range 2 * checksInLimit { // twice the limit
		line, err := out.ReadString('\n')
		require.NoError(t, err, "it was ended")
		require.Contains(t, line, "answered")
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, syscall.SIGTERM, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

func TestUnresponsiveProgramIsEndedWithAReason(t *testing.T) {
	cmd, out := run(t, "failing")
	text := killed(t, cmd, out)
	require.Contains(t, text, fmt.Sprintln("answered", answers))
	require.Equal(t, 1, strings.Count(text, "the health check fails, 1.6s of that end this program: no answer"))
}

func TestProgramThatIsBlockedIsEnded(t *testing.T) {
	cmd, out := run(t, "blocked")
	require.Contains(t, killed(t, cmd, out), fmt.Sprintln("answered", answers))
}

func TestProgramThatHangsBeforeItsFirstCheckIsEnded(t *testing.T) {
	cmd, out := run(t, "silent")
	require.Empty(t, killed(t, cmd, out))
}

func TestStoppedProgramIsEnded(t *testing.T) {
	cmd, out := run(t, "well")
	_, err := out.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	killed(t, cmd, out)
}

func TestAnyAnswerOfAServerWillDo(t *testing.T) {
	code := http.StatusOK
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/-/healthy", r.URL.Path)
		w.WriteHeader(code)
	})
	s := httptest.NewServer(h)
	address := s.Listener.Addr().String()
	require.NoError(t, Answers(address, "/-/healthy")(stuck))
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	require.NoError(t, Answers("0.0.0.0:"+port, "/-/healthy")(stuck), "an address for all of this machine's")
	code = http.StatusUnauthorized
	require.NoError(t, Answers(address, "/-/healthy")(stuck))
	s.Close()
	require.ErrorIs(t, Answers(address, "/-/healthy")(stuck), syscall.ECONNREFUSED)

	s = httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	require.NoError(t, Answers(s.Listener.Addr().String(), "/-/healthy")(stuck))
}

func TestAnswerOfAnotherServerIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		if c, err := l.Accept(); err == nil {
			fmt.Fprint(c, "220 mail\n")
			io.Copy(io.Discard, c)
		}
	}()
	require.ErrorContains(t, Answers(l.Addr().String(), "/")(stuck), "not HTTP")
}

func TestCheckDoesNotWaitForASilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections for it
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	var late net.Error // of the answer, or at load of the connection
	require.ErrorAs(t, Answers(l.Addr().String(), "/-/healthy")(time.Millisecond), &late)
	require.True(t, late.Timeout())
}
