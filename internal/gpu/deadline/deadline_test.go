package deadline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneHangCostsOnePieceOfWork(t *testing.T) {
	var g Group[string, int]
	end, past := make(chan struct{}), make(chan struct{})
	close(past)
	w := g.Start("gpu 1", func() int { <-end; return 7 })
	require.True(t, g.Outstanding("gpu 1"))
	require.False(t, g.Late("gpu 1"))
	again, run := g.Join("gpu 1", func() int { panic("begun twice") })
	require.Same(t, w, again)
	require.Nil(t, run)
	_, ok := Wait(w, past)
	require.False(t, ok)
	require.True(t, g.Late("gpu 1"))
	_, ok = Wait(again, make(chan struct{}))
	require.False(t, ok, "nobody waits for it a second time")

	other, run := g.Join("gpu 2", func() int { return 8 })
	run()
	n, ok := Wait(other, past)
	require.True(t, ok, "its end counts more than the deadline")
	require.Equal(t, 8, n)

	close(end)
	<-w.done
	require.False(t, g.Outstanding("gpu 1"))
	require.False(t, g.Late("gpu 1"))
	n, ok = Wait(g.Start("gpu 1", func() int { return 9 }), make(chan struct{}))
	require.True(t, ok)
	require.Equal(t, 9, n)
}
