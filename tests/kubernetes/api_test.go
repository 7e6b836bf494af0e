//go:build kubernetes

package kubernetes

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	apiAddress = "127.0.0.1:6443"
	apiToken   = "of-the-tests"
	pods       = "/api/v1/namespaces/default/pods"
)

var client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// call asks the API server, in YAML if there is something to report.
func call(method, path, body string) (status int, answer string, err error) {
	return send(method, path, "application/yaml", body)
}

func send(method, path, contentType, body string) (status int, answer string, err error) {
	r, err := http.NewRequest(method, "https://"+apiAddress+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+apiToken)
	r.Header.Set("Content-Type", contentType)
	a, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	return a.StatusCode, string(data), err
}

func get(t *testing.T, path string, into any) {
	t.Helper()
	status, answer, err := call(http.MethodGet, path, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)
	require.NoError(t, json.Unmarshal([]byte(answer), into), answer)
}

// condition is one of a pod's or a node's.
type condition struct{ Type, Status, Reason, Message string }

type podStatus struct {
	Phase, Reason, Message string
	Conditions             []condition
	ContainerStatuses      []struct {
		Ready        bool
		RestartCount int
		ContainerID  string
	}
}

type nodeStatus struct {
	Capacity, Allocatable map[string]string
	Conditions            []condition
}

func node(t *testing.T) nodeStatus {
	t.Helper()
	return first.status(t)
}

func (m member) status(t *testing.T) nodeStatus {
	t.Helper()
	var n struct{ Status nodeStatus }
	get(t, "/api/v1/nodes/"+m.name, &n)
	return n.Status
}

// events are what the cluster's parts said of something.
func events(t *testing.T, name string) string {
	t.Helper()
	var list struct {
		Items []struct {
			Reason, Message string
			InvolvedObject  struct{ Name string }
		}
	}
	get(t, "/api/v1/namespaces/default/events", &list)
	var b bytes.Buffer
	for _, e := range list.Items {
		if e.InvolvedObject.Name == name {
			b.WriteString(e.Reason + ": " + e.Message + "\n")
		}
	}
	return b.String()
}
