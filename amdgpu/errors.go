package amdgpu

// RAS holds the errors that the driver counted since it was loaded.
type RAS struct {
	Blocks   []BlockErrors // blocks with an answer in the last reading
	Errors   *Errors       // of all blocks together; a count never decreases
	BadPages *BadPages
}

// BlockErrors holds the counts of one part of the GPU.
type BlockErrors struct {
	Block                                string
	Uncorrectable, Correctable, Deferred Number
}

// Errors holds the counts of all blocks together.
type Errors struct{ Uncorrectable, Deferred, Correctable uint64 }

// BadPages counts pages of video memory: retired, pending until the next reboot, or in use
// and immovable. For NVIDIA's GPUs it counts rows: Unreservable are rows without a spare.
type BadPages struct {
	Retired, Pending, Unreservable int
	// Replaced counts rows with a spare, or retired pages of older GPUs, of NVIDIA.
	// Replacing is normal operation and no fault.
	Replaced Number
}

// Total returns the number of all bad pages.
func (b *BadPages) Total() int { return b.Retired + b.Pending + b.Unreservable }
