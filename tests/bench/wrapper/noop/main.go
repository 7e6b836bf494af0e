// The command noop stands in for the real runc where there is no busybox.
package main

func main() {}
