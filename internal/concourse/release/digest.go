package release

import (
	"encoding/json"
	"strings"
)

// upstreamAPI is where GitHub says what it knows of an upstream release. It
// computes the SHA-256 of each asset when that is uploaded, and gives it as
// "digest" (GitHub REST API, "Get a release by tag name"; since June 2025).
// Upstream itself publishes a SHA-1 only.
const upstreamAPI = "https://api.github.com/repos/concourse/concourse/releases/tags/v"

// maxSumAnswer bounds what is read for a checksum: a release of 60 assets is
// some 150 kB of JSON.
const maxSumAnswer = 4 << 20

// parseDigest finds the digest of the asset of that name.
func parseDigest(data []byte, name string) (string, bool) {
	var release struct {
		Assets []struct {
			Name   string `json:"name"`
			Digest string `json:"digest"`
		} `json:"assets"`
	}
	if json.Unmarshal(data, &release) != nil {
		return "", false
	}
	for _, a := range release.Assets {
		sum, ok := strings.CutPrefix(strings.ToLower(a.Digest), "sha256:")
		if a.Name == name && ok && sumForm.MatchString(sum) {
			return sum, true
		}
	}
	return "", false
}
