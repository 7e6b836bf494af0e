// Package charmpack packs this tree as a charm for Juju: a zip with a fixed list of files,
// checked against the rules of Juju 3.6. It never builds anything and never ships a file
// that is not in the list.
//
// Juju handles the files as follows (github.com/juju/juju internal/charm/worker/uniter,
// github.com/juju/charm/v12):
//
//   - `dispatch` in the root is started for every hook and action, with the
//     name in JUJU_DISPATCH_PATH (hooks/install, actions/plan). If it exists,
//     the unit agent ignores hooks/.
//   - hooks/ is for people and tools that start a hook by name. Each file in it
//     links to one short script, which sets JUJU_DISPATCH_PATH and executes
//     ../dispatch.
//   - metadata.yaml is required. manifest.yaml makes the charm "format v2".
//     Juju reads only its key bases (name, channel, architectures), so the
//     manifest has no other. charmcraft adds its own version and start time.
//   - revision has a number, which the controller replaces at each deploy or
//     refresh of a local charm. The first 100 characters of version's first
//     line are the charm-version in `juju status --format yaml`.
//   - Unpacking keeps permission bits and relative links that stay inside.
package charmpack
