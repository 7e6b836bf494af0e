package worker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// maxLog bounds each of the two files of the log.
const maxLog = 10 << 20

// logFile is a log in a file of bounded size. A full file is renamed and replaces the
// previous one.
type logFile struct {
	path string
	max  int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// oldLog returns the path of the previous file.
func oldLog(path string) string { return path + ".1" }

// Write implements io.Writer.
func (l *logFile) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size+int64(len(data)) > l.max {
		l.file.Close()
		l.file = nil
		if err := os.Rename(l.path, oldLog(l.path)); err != nil {
			return 0, err
		}
	}
	if l.file == nil {
		f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, err
		}
		l.file, l.size = f, 0
		if st, err := f.Stat(); err == nil {
			l.size = st.Size()
		}
	}
	n, err := l.file.Write(data)
	l.size += int64(n)
	return n, err
}

// Close closes the file. A later Write opens it again.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// tail returns at most the last n bytes of a file.
func tail(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(n, st.Size()))
	read, err := f.ReadAt(data, max(0, st.Size()-n))
	if read > 0 {
		return data[:read], nil
	}
	return nil, err
}

// Times of restarts. A process that ran for healthyAfter begins with firstWait again.
const (
	firstWait    = time.Second
	longestWait  = time.Minute
	healthyAfter = 10 * time.Minute
)

// supervisor keeps Concourse's worker running.
type supervisor struct {
	start func() (Child, error)
	after func(time.Duration) <-chan time.Time // time.After
	now   func() time.Time
	// report gets every change: the process that runs, or why none does.
	report func(pid int, problem string)
}

// run starts the worker again after each end, until ctx ends or the worker exits with 0. It
// exits so only if the web has landed or retired it.
func (s supervisor) run(ctx context.Context) {
	wait := firstWait
	for {
		began := s.now()
		problem, released := s.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case released:
			s.report(0, "the web has retired or landed this worker; to start it again: "+Program+" install")
			return
		case s.now().Sub(began) >= healthyAfter:
			wait = firstWait
		}
		s.report(0, fmt.Sprintf("%s; starting again in %v", problem, wait))
		select {
		case <-ctx.Done():
			return
		case <-s.after(wait):
		}
		wait = min(2*wait, longestWait)
	}
}

// once runs the worker until it ends, and then ends the tasks that it left.
func (s supervisor) once(ctx context.Context) (problem string, released bool) {
	child, err := s.start()
	if err != nil {
		return fmt.Sprintf("cannot start Concourse's worker: %v", err), false
	}
	s.report(child.PID(), "")
	type end struct {
		exit int
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		exit, err := child.Wait()
		ended <- end{exit, err}
	}()
	select {
	case <-ctx.Done():
		if err := child.Kill(); err != nil {
			return fmt.Sprintf("cannot end Concourse's worker: %v", err), false
		}
		<-ended
		return "", false
	case e := <-ended:
		if err := child.Kill(); err != nil {
			return fmt.Sprintf("cannot end the tasks of Concourse's worker: %v", err), false
		}
		if e.err != nil {
			return fmt.Sprintf("cannot wait for Concourse's worker: %v", e.err), false
		}
		return fmt.Sprintf("Concourse's worker exited with %d", e.exit), e.exit == 0
	}
}
