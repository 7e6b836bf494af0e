// Package journeys walks the pages of README.md, docs/tutorial and docs/how-to as a person
// does: it runs their commands in order on a throwaway machine, and compares the output that
// they show. A block that can't run there has the reason in the page, in a comment before
// the block:
//
//	<!-- not run: REASON -->              the next block
//	<!-- not run (juju add-model): REASON --> its commands with this beginning
//	<!-- not compared: REASON -->         the next output
//	<!-- saved as: PATH -->               the next block is the content of a file
//	<!-- page not run: REASON -->         all blocks of the page
//
// It never runs a command on this machine.
package journeys
