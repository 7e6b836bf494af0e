//go:build e2e

package page

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest" // the flag -update
)

// updates reports whether the flag -update, which the goldens' package declares, renews the
// pictures of the docs.
func updates() bool { return flag.Lookup("update").Value.String() == "true" }

func TestBrowserFillsTheBars(t *testing.T) {
	b := newBrowser(t)
	b.open(made(t, gpus(4)), view{width: 1000, height: 1000})
	_, picture := b.picture()
	var at struct{ X, Y, Height int }
	b.eval(`(({ x, y, width, height }) => ({ x: Math.round(x), y: Math.round(y), height: Math.round(height) }))(document.querySelector(".row meter").getBoundingClientRect())`, &at)
	require.Positive(t, at.Height)
	for y := at.Y + 1; y < at.Y+at.Height-1; y++ {
		r, g, b, _ := picture.At(at.X+4, y).RGBA()
		require.Equal(t, []uint32{0x2b, 0x62, 0xb8}, []uint32{r >> 8, g >> 8, b >> 8}, "%d of %d pixels within a bar's border", y-at.Y, at.Height)
	}
	if updates() {
		for file, url := range map[string]string{"gpu-page.png": made(t, eightGPUs()), "fleet-page.png": madeFleet(t, sickFleet(64))} {
			b.open(url, view{width: 1440, height: 900})
			_, picture = b.picture()
			require.NoError(t, os.WriteFile("../../docs/reference/"+file, small(t, picture), 0o644))
		}
	}
}

// small writes the picture with its 256 most frequent colours, a third as large.
func small(t *testing.T, picture image.Image) []byte {
	number := map[color.Color]int{}
	bounds := picture.Bounds()
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			number[picture.At(x, y)]++
		}
	}
	order := slices.SortedFunc(maps.Keys(number), func(a, b color.Color) int { return number[b] - number[a] })
	out := image.NewPaletted(bounds, color.Palette(order[:min(256, len(order))]))
	draw.Draw(out, bounds, picture, bounds.Min, draw.Src)
	var b bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out))
	return b.Bytes()
}
