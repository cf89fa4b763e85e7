package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"addon-operator/internal/catalog/sourcetest"
)

// FuzzReadPack checks that readPack of any packfile returns an error, or a pack whose objects can all be read.
func FuzzReadPack(f *testing.F) {
	text := strings.Repeat("apiVersion: v1\nkind: ConfigMap\n", 5) // long enough for git to store the similar content of the next commit as a delta
	repository := sourcetest.NewGit(f, f.TempDir(), "r", map[string]string{"a/b": text})
	repository.Commit(map[string]string{"a/b": text + "x"})
	repository.Run("gc", "-q")
	packs, err := filepath.Glob(filepath.Join(repository.Dir, ".git/objects/pack/*.pack"))
	if err != nil || len(packs) != 1 {
		f.Fatal(packs, err)
	}
	seed, err := os.ReadFile(packs[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x70"))
	limits := Limits{Repository: 1 << 20, Objects: 1000}.orDefault()
	fetcher, err := New(Options{TempDir: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	if n := deltasIn(f, fetcher, seed, limits); n == 0 {
		f.Fatal("the packfile of git has no deltas")
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		content := fetcher.disk.newSpool("the repository", limits.Repository)
		defer content.Close()
		if _, err := content.Write(data); err != nil {
			return
		}
		p, err := readPack(t.Context(), content, limits)
		if err != nil {
			return
		}
		for hash, i := range p.byHash {
			kind := p.kind(i)
			text, err := p.object(hash, kind)
			if err != nil || plumbing.ComputeHash(kind, text) != hash {
				t.Errorf("object %s cannot be read: %v", hash, err)
			}
			if kind == plumbing.TreeObject {
				_, _ = p.tree(hash)
			}
		}
	})
}

// deltasIn returns the number of deltas in a packfile that readPack has resolved.
func deltasIn(t testing.TB, fetcher *Fetcher, data []byte, limits Limits) int {
	t.Helper()
	content := fetcher.disk.newSpool("the repository", limits.Repository)
	defer content.Close()
	if _, err := content.Write(data); err != nil {
		t.Fatal(err)
	}
	p, err := readPack(t.Context(), content, limits)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, o := range p.objects {
		if o.base >= 0 {
			n++
		}
	}
	return n
}
