// The command noop replaces the real runc if there is no busybox.
package main

func main() {}
