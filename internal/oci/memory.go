package oci

// memory is what one call works in. A program that lives for a millisecond
// spends much of that on the first touch of each page, and on the first
// allocation of each size; so what a create or exec needs comes from two
// pieces, which are touched only as far as they are used. What does not fit is
// allocated. The zero memory has no pieces and works, too.
type memory struct {
	bytes   []byte
	devices []cdiDevice
	chosen  []chosen
	nodes   []cdiNode
	paths   []string
	mounts  []mount
	rules   []rule
	places  []place
}

// lists are of the lengths that a create with up to 8 GPUs has.
type lists struct {
	devices [24]cdiDevice
	chosen  [8]chosen
	nodes   [32]cdiNode
	paths   [40]string
	mounts  [40]mount
	rules   [32]rule
	places  [24]place
}

// largest is the largest size but one, in bytes, that Go's allocator has ready
// lists for (runtime/sizeclasses.go); beyond those an allocation costs more.
const largest = 28 << 10

func newMemory() *memory {
	l := new(lists)
	return &memory{
		bytes: make([]byte, largest), devices: l.devices[:0], chosen: l.chosen[:0], nodes: l.nodes[:0], paths: l.paths[:0],
		mounts: l.mounts[:0], rules: l.rules[:0], places: l.places[:0],
	}
}

// take returns n bytes that nobody else has.
func (mem *memory) take(n int) []byte {
	if n > len(mem.bytes) {
		return make([]byte, n)
	}
	taken := mem.bytes[:n:n]
	mem.bytes = mem.bytes[n:]
	return taken
}

// rest takes all bytes that are left, as room to write to.
func (mem *memory) rest() []byte { return mem.take(len(mem.bytes))[:0] }

// room returns an empty list with room for n elements: once that of memory,
// then, or where that is too short, another.
func room[T any](list *[]T, n int) []T {
	if n > cap(*list) || n == 0 {
		return make([]T, 0, n)
	}
	taken := *list
	*list = nil
	return taken
}

// growStack makes room for all that follows at once. Go would double the stack
// each time it is full, and each time touch new pages and walk all frames. It
// is the size of the frame that does it; nothing is ever copied.
//
//go:noinline
func growStack(args []string) {
	const frame = 20 << 10
	if len(args) > 1<<30 { // more than any kernel passes on
		var room [frame]byte
		fill(room[:], args)
	}
}

//go:noinline
func fill(room []byte, args []string) {
	for i := range room {
		room[i] = args[i][0]
	}
}
