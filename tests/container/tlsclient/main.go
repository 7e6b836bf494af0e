// Command tlsclient is what a task of the tests runs: it reports whether a TLS server, at a
// socket and of a name, proves its identity to a process with the authorities that it got
// to.
package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
)

func main() {
	conn, err := net.Dial("unix", os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err := tls.Client(conn, &tls.Config{ServerName: os.Args[2]}).Handshake(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("verified")
}
