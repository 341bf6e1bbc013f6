// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

const streamBytes = 64 << 20

// zeros yields n zero bytes.
type zeros struct{ n int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.n)
	clear(p[:n])
	z.n -= n
	return int(n), nil
}

// meter counts what is written and samples the live heap on the way.
type meter struct {
	n, next   int64
	low, high uint64
}

func (m *meter) Write(p []byte) (int, error) {
	m.n += int64(len(p))
	if m.n >= m.next {
		m.next += 8 << 20
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		if m.low == 0 || stats.HeapAlloc < m.low {
			m.low = stats.HeapAlloc
		}
		m.high = max(m.high, stats.HeapAlloc)
	}
	return len(p), nil
}

func TestBodiesStreamInConstantMemory(t *testing.T) {
	var up meter
	origin := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			n, _ := io.Copy(&up, r.Body)
			_, _ = io.WriteString(w, strconv.FormatInt(n, 10))
			return
		}
		_, _ = io.Copy(w, &zeros{n: streamBytes})
	})
	client := startProxy(t, forwardproxy.Config{}).client(t, nil, nil)

	post, err := http.NewRequestWithContext(context.Background(), http.MethodPost, origin.URL, &zeros{n: streamBytes})
	require.NoError(t, err)
	_, body := do(t, client, post)
	require.Equal(t, strconv.Itoa(streamBytes), body)

	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, origin.URL, nil)
	require.NoError(t, err)
	res, err := client.Do(request)
	require.NoError(t, err)
	var down meter
	n, err := io.Copy(&down, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.EqualValues(t, streamBytes, n)

	for name, m := range map[string]meter{"upload": up, "download": down} {
		require.Less(t, m.high-m.low, uint64(4<<20), "%s: live heap grew from %d to %d bytes", name, m.low, m.high)
	}
}
