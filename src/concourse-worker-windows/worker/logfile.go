package worker

import (
	"os"
	"sync"
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
