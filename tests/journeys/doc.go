// Package journeys walks the pages of README.md, docs/tutorial and docs/how-to as a person
// does: it runs their commands in order on a throwaway machine, and compares the output that
// they show. A block that can't run there has the reason in the page, in a comment:
//
//	<!-- not run: REASON -->       the next block
//	<!-- page not run: REASON -->  all blocks of the page
//	<!-- not compared: REASON -->  the next output
//	<!-- saved as: PATH -->        the next block is the content of a file
//
// After "not run", "(juju deploy, lxc)" limits the reason to commands with these beginnings.
// The package never runs a command on this machine.
package journeys
