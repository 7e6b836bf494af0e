//go:build e2e

package page

import (
	"bytes"
	"encoding/json"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host/hosttest"
)

// The flag -update, which the goldens' package declares, takes the picture of the
// docs anew.
func updates() bool { return flag.Lookup("update").Value.String() == "true" }

// made serves the exporter's own page with GPUs that have a history.
func made(t *testing.T, exporter string, gpus []map[string]any) string {
	t.Helper()
	answer, err := json.Marshal(map[string]any{"gpus": gpus})
	require.NoError(t, err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/gpus" {
			w.Header().Set("Content-Type", "application/json")
			w.Write(answer)
			return
		}
		page, err := http.Get(exporter + r.URL.Path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer page.Body.Close()
		for name, values := range page.Header {
			w.Header()[name] = values
		}
		io.Copy(w, page.Body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// busy is a fixture's GPU with numbers of the last 15 minutes that it never had.
func busy(gpu map[string]any, i int) map[string]any {
	const points = 90
	wave := func(low, high float64) []float64 {
		out := make([]float64, points)
		for k := range out {
			on := 1 / (1 + math.Exp(-8*math.Sin(2*math.Pi*(float64(k)+11*float64(i))/61)))
			out[k] = low + (high-low)*on + (high-low)*.02*math.Sin(float64(k*k+i))
		}
		return out
	}
	scale := []float64{1, .97, .4, .2}[i%4]
	history := map[string]any{"interval_seconds": 10}
	for name, ends := range map[string][2]float64{"temperature_celsius": {42, 66 * (scale + 2) / 3}, "power_watts": {90 * scale, 250 * scale},
		"memory_used_bytes": {28e9 * scale, 54e9 * scale}, "activity_ratio": {.15 * scale, .95 * scale}} {
		values := wave(ends[0], ends[1])
		history[name], gpu[name] = values, values[points-1]
	}
	gpu["history"] = history
	return gpu
}

func TestBrowserFillsTheBars(t *testing.T) {
	need(t)
	exporter := "http://" + serve(t, hosttest.Host(t, "mi210x4"))
	r, err := http.Get(exporter + "/api/v1/gpus")
	require.NoError(t, err)
	defer r.Body.Close()
	var found struct{ GPUs []map[string]any }
	require.NoError(t, json.NewDecoder(r.Body).Decode(&found))
	require.Len(t, found.GPUs, 4)
	for i, gpu := range found.GPUs {
		busy(gpu, i)
	}
	file := filepath.Join(t.TempDir(), "gpu-page.png")
	browse(t, made(t, exporter, found.GPUs), "--hide-scrollbars", "--window-size=1000,1480", "--screenshot="+file)
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	picture, err := png.Decode(f)
	require.NoError(t, err)
	filled := bars(picture)
	require.NotEmpty(t, filled)
	for _, height := range filled {
		require.GreaterOrEqual(t, height, 9, "of the 9 pixels within a bar's border: %v", filled)
	}
	if updates() {
		require.NoError(t, os.WriteFile("../../docs/reference/gpu-page.png", small(t, picture), 0o644))
	}
}

// bars are the heights of what is filled, down a line through the left column's
// bars. The lines of the histories are thinner than any bar.
func bars(picture image.Image) (heights []int) {
	const x, thin = 46, 3
	height := 0
	for y := range picture.Bounds().Dy() {
		if r, g, b, _ := picture.At(x, y).RGBA(); r>>8 == 0x2b && g>>8 == 0x62 && b>>8 == 0xb8 {
			height++
			continue
		}
		if height > thin {
			heights = append(heights, height)
		}
		height = 0
	}
	return heights
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
