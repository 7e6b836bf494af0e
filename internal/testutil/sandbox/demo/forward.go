package demo

import (
	"io"
	"net"
	"os"
)

// forward gives the connections of a listener, which is an open file of this process, to an
// address in the namespaces.
func forward(file uintptr, to string) error {
	f := os.NewFile(file, "listener")
	l, err := net.FileListener(f)
	f.Close()
	if err != nil {
		return err
	}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go join(from, to)
		}
	}()
	return nil
}

// join copies both directions of a connection until both ended.
func join(from net.Conn, to string) {
	defer from.Close()
	c, err := net.Dial("tcp", to)
	if err != nil {
		return // the caller sees a closed connection
	}
	defer c.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(c, from)
		c.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(from, c)
	from.(*net.TCPConn).CloseWrite()
	<-done
}
