package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// diskOf returns a diskSpace in an empty directory. The argument space is its size in bytes.
func diskOf(t *testing.T, space int64) *diskSpace {
	t.Helper()
	d := &diskSpace{dir: t.TempDir()}
	d.left.Store(space)
	return d
}

func textOf(t *testing.T, s *spool) string {
	t.Helper()
	text, err := io.ReadAll(s.reader())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestASpoolReturnsTheBytesWrittenInPiecesOfAnySize checks that a spool returns the written bytes and their digest, and
// that it uses disk space only if there are more than inMemory bytes.
func TestASpoolReturnsTheBytesWrittenInPiecesOfAnySize(t *testing.T) {
	t.Parallel()
	const space = 4 << 20
	disk := diskOf(t, space)
	source := random(3 * inMemory)
	rapid.Check(t, func(t *rapid.T) {
		s := disk.newSpool("the index", space)
		var all bytes.Buffer
		for _, n := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 100, inMemory / 2, inMemory - 1, inMemory, inMemory + 1}), 0, 3).Draw(t, "pieces") {
			piece := source[n : 2*n]
			if written, err := s.Write([]byte(piece)); err != nil || written != n {
				t.Fatalf("wrote %d of %d bytes: %v", written, n, err)
			}
			all.WriteString(piece)
		}
		for range 2 { // each reader begins at the first byte
			if got, err := io.ReadAll(s.reader()); err != nil || !bytes.Equal(got, all.Bytes()) {
				t.Fatalf("got %d bytes, want %d: %v", len(got), all.Len(), err)
			}
		}
		sum := sha256.Sum256(all.Bytes())
		if want := hex.EncodeToString(sum[:]); s.digest() != want {
			t.Fatalf("the digest is %s, want %s", s.digest(), want)
		}
		inFile := int64(0)
		if all.Len() > inMemory {
			inFile = int64(all.Len())
		}
		if used := space - disk.left.Load(); used != inFile {
			t.Fatalf("%d bytes of %d use %d bytes of the disk, want %d", all.Len(), inMemory, used, inFile)
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		if left := disk.left.Load(); left != space {
			t.Fatalf("%d bytes are left after Close, want %d", left, space)
		}
	})
}

func TestASpoolAcceptsItsLimitAndNotAByteMore(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int64{"in memory": 1 << 10, "in a file": 2 * inMemory} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := diskOf(t, 1<<20).newSpool("the archive", limit)
			defer s.Close()
			all := random(int(limit))
			if _, err := io.Copy(s, strings.NewReader(all)); err != nil {
				t.Fatal(err)
			}
			n, err := s.Write([]byte("x"))
			if want := "the archive is larger than the limit of " + size(limit); n != 0 || err == nil || err.Error() != want {
				t.Errorf("got %d, %v, want %s", n, err, want)
			}
			if plain, ok := errors.AsType[*plainError](err); !ok || !plain.loading {
				t.Errorf("%#v does not say that the content is invalid", err)
			}
			if textOf(t, s) != all {
				t.Error("the rejected byte changed the content")
			}
		})
	}
}

func TestAFullDiskLeavesASpoolAsItWas(t *testing.T) {
	t.Parallel()
	const space = inMemory + 10
	disk := diskOf(t, space)
	small := disk.newSpool("the index", 1<<20)
	first := random(inMemory)
	if _, err := small.Write([]byte(first)); err != nil {
		t.Fatal(err)
	}
	if _, err := small.Write([]byte("0123456789")); err != nil { // uses the whole space
		t.Fatal(err)
	}
	n, err := small.Write([]byte("x"))
	if n != 0 || !errors.Is(err, errNoSpace) {
		t.Errorf("wrote %d bytes beyond the space: %v", n, err)
	}
	if textOf(t, small) != first+"0123456789" {
		t.Error("the failed write changed the content in the file")
	}

	other := disk.newSpool("the index", 1<<20)
	if _, err := other.Write([]byte(first)); err != nil {
		t.Fatal(err) // it must not fail, because data in memory needs no disk space
	}
	if n, err := other.Write([]byte("x")); n != 0 || !errors.Is(err, errNoSpace) {
		t.Errorf("moved %d bytes to a full disk: %v", n, err)
	}
	if textOf(t, other) != first {
		t.Error("the failed move changed the content in memory")
	}

	if err := small.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := other.Write([]byte("x")); n != 1 || err != nil {
		t.Errorf("wrote %d bytes after another spool was closed: %v", n, err)
	}
	if textOf(t, other) != first+"x" {
		t.Error("the content lacks bytes of before the failed write")
	}
	other.Close()
	if left := disk.left.Load(); left != space {
		t.Errorf("%d bytes are left, want %d", left, space)
	}
}

func TestASpoolWithoutItsDirectoryTakesNoSpace(t *testing.T) {
	t.Parallel()
	disk := diskOf(t, 1<<20)
	if err := errors.Join(os.Remove(disk.dir), os.WriteFile(disk.dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := disk.newSpool("the index", 1<<20)
	defer s.Close()
	if _, err := s.Write([]byte(random(inMemory + 1))); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("got %v", err)
	}
	if left := disk.left.Load(); left != 1<<20 {
		t.Errorf("%d bytes are left, want all", left)
	}
}

// TestASpoolCreatesItsDirectoryAgain removes the directory and its parent, as a hook with "rm -rf /tmp/*" does.
func TestASpoolCreatesItsDirectoryAgain(t *testing.T) {
	t.Parallel()
	disk := diskOf(t, 1<<20)
	parent := disk.dir
	disk.dir = filepath.Join(parent, "addons-fetch")
	if err := os.Remove(parent); err != nil {
		t.Fatal(err)
	}
	s := disk.newSpool("the index", 1<<20)
	defer s.Close()
	text := random(inMemory + 1)
	if _, err := s.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if textOf(t, s) != text {
		t.Error("the content is not the written one")
	}
}

func TestClosingANilSpoolDoesNothing(t *testing.T) {
	t.Parallel()
	var s *spool
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
