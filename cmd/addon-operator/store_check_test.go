package main

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// TestStoreCheckReportsDamageOnlyIfTheOperatorFindsIt runs the command "store check" with operators that answer
// differently. The exit code must be the one for a damaged store only if the answer names damage.
func TestStoreCheckReportsDamageOnlyIfTheOperatorFindsIt(t *testing.T) {
	t.Parallel()
	damaged, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer damaged.Close()
	if err := damaged.Update(func(tx *store.Tx) error { tx.Put(store.ModuleKey("web"), []byte("no JSON")); return nil }); err != nil {
		t.Fatal(err)
	}
	closed := storetest.Memory(t)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	routes := func(db *store.DB) http.Handler { return (&debugapi.API{DB: db, Now: time.Now}).Routes() }
	for name, c := range map[string]struct {
		operator http.Handler
		code     string
		err      string
	}{
		"damage":              {routes(damaged), "11: ", "record modules/web is not JSON"},
		"a closed store":      {routes(closed), "1: ", "store is closed"},
		"a broken connection": {http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "1: ", "EOF"},
	} {
		socket := filepath.Join(t.TempDir(), "socket")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: c.operator, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }() // ends when the server is closed
		if out, failed, _ := verb(t, "store", "check", "--debug-unix-socket", socket); !strings.HasPrefix(failed, c.code) || !strings.Contains(failed, c.err) || out != "" {
			t.Errorf("%s: error %q, want code %sand %q; output %q", name, failed, c.code, c.err, out)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}
