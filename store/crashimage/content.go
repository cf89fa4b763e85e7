package crashimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io"
	"maps"
	"os"
	"slices"
)

// sector is the number of bytes that a disk writes as a whole or not at all.
const sector = 512

// A content is the content of a file: the bytes in the field base, some sectors of which are
// replaced. The hash of a content is updated with each replaced sector, so that images of large
// files can be compared without being written.
type content struct {
	base    []byte
	data    []part // the parts of base that are not zero, in order
	length  int
	kept    int // number of bytes of base that are not cut off
	sectors map[int]*[sector]byte
	sum     uint64 // the sum of the hashes of all sectors
}

var hashSeed = maphash.MakeSeed()

// sumOf returns the hash of a sector; 0 if it is all zeros.
func sumOf(index int, s *[sector]byte) uint64 {
	if *s == ([sector]byte{}) {
		return 0
	}
	var b [8 + sector]byte
	binary.BigEndian.PutUint64(b[:], uint64(index)) //nolint:gosec // the index is not negative
	copy(b[8:], s[:])
	return maphash.Bytes(hashSeed, b[:])
}

// contentOf returns a content with the bytes b. The caller must not change b afterwards.
func contentOf(b []byte) *content {
	c := &content{base: b, data: nonZero(b), length: len(b), kept: len(b), sectors: map[int]*[sector]byte{}}
	for i := range sectorsIn(len(b)) {
		c.sum += sumOf(i, c.at(i))
	}
	return c
}

// sectorsIn returns the number of sectors of a file with length bytes.
func sectorsIn(length int) int { return (length + sector - 1) / sector }

// clone returns a copy that can be changed without changing c.
func (c *content) clone() *content {
	d := *c
	d.sectors = maps.Clone(c.sectors)
	return &d
}

// at returns sector i.
func (c *content) at(i int) *[sector]byte {
	if s := c.sectors[i]; s != nil {
		return s
	}
	var s [sector]byte
	if from := i * sector; from < c.kept {
		copy(s[:], c.base[from:c.kept])
	}
	return &s
}

// set replaces sector i with s.
func (c *content) set(i int, s *[sector]byte) {
	c.sum += sumOf(i, s) - sumOf(i, c.at(i))
	c.sectors[i] = s
}

// write writes b at the given offset, and extends the content if b does not fit.
func (c *content) write(offset int, b []byte) {
	for len(b) > 0 {
		s := *c.at(offset / sector)
		n := copy(s[offset%sector:], b)
		c.set(offset/sector, &s)
		offset, b = offset+n, b[n:]
	}
	c.length = max(c.length, offset)
}

// truncate sets the length of the file.
func (c *content) truncate(length int) {
	if length < c.length {
		last := length / sector
		s := *c.at(last)
		clear(s[length%sector:])
		c.set(last, &s)
		for i := last + 1; i < sectorsIn(c.length); i++ {
			c.sum -= sumOf(i, c.at(i))
			delete(c.sectors, i)
		}
		c.kept = min(c.kept, length)
	}
	c.length = length
}

// bytes returns the content.
func (c *content) bytes() []byte {
	b := make([]byte, c.length)
	copy(b, c.base[:c.kept])
	for i, s := range c.sectors {
		copy(b[min(i*sector, c.length):], s[:])
	}
	return b
}

// flat returns c if fewer than 1000 sectors of c are replaced. Otherwise flat returns an equal
// content without replaced sectors, which has all its bytes in the field base.
func (c *content) flat() *content {
	if len(c.sectors) < 1000 {
		return c
	}
	b := c.bytes()
	return &content{base: b, data: nonZero(b), length: c.length, kept: c.length, sectors: map[int]*[sector]byte{}, sum: c.sum}
}

// nonZero divides b into blocks, as a file system does, and returns the parts whose blocks are not
// all zeros.
func nonZero(b []byte) (parts []part) {
	const block = 4096
	zeros := make([]byte, block)
	for from := 0; from < len(b); from += block {
		to := min(len(b), from+block)
		switch last := len(parts) - 1; {
		case bytes.Equal(b[from:to], zeros[:to-from]):
		case last >= 0 && parts[last].to == from:
			parts[last].to = to
		default:
			parts = append(parts, part{from, to})
		}
	}
	return parts
}

// writeTo writes the content to an empty file. The last sector is written completely, so the file
// can become longer than the content. writeTo leaves holes for blocks of zeros, because most blocks
// of a store file are zeros, and tests write to file systems in memory.
func (c *content) writeTo(f io.WriterAt) (err error) {
	for _, p := range c.data {
		if p.from < c.kept {
			_, e := f.WriteAt(c.base[p.from:min(p.to, c.kept)], int64(p.from))
			err = errors.Join(err, e)
		}
	}
	var adjacent []byte // the adjacent sectors that one call of WriteAt writes
	changed := slices.Sorted(maps.Keys(c.sectors))
	for len(changed) > 0 {
		first := changed[0]
		adjacent = adjacent[:0]
		for n := 0; len(changed) > 0 && changed[0] == first+n; n++ {
			adjacent = append(adjacent, c.sectors[changed[0]][:]...)
			changed = changed[1:]
		}
		_, e := f.WriteAt(adjacent, int64(first)*sector)
		err = errors.Join(err, e)
	}
	return err
}

// save writes the content to the file at path.
func (c *content) save(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(c.writeTo(f), f.Truncate(int64(c.length)), f.Close())
}
