package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// A sealed value begins with a mark and a checksum of the key and the value. A value without the mark
// was written by an older version, which did not store checksums.
const (
	sealMark = 0x01
	sealSize = 1 + 4
)

var sealTable = crc32.MakeTable(crc32.Castagnoli)

var errChecksum = errors.New("its checksum does not match")

func checksum(k Key, v []byte) uint32 {
	return crc32.Update(crc32.Update(0, sealTable, k), sealTable, v)
}

// seal appends the sealed value of k to buf.
func seal(buf []byte, k Key, v []byte) []byte {
	buf = append(buf, sealMark)
	buf = binary.BigEndian.AppendUint32(buf, checksum(k, v))
	return append(buf, v...)
}

// unseal returns the value that the stored bytes of the key k contain. If the checksum does not
// match, unseal returns the stored bytes unchanged, and false. damageOf recognizes such a value by
// the mark at its beginning. If the mark itself is damaged, unseal also returns the stored bytes and
// false, but only the decoding of the value can then find the damage.
func unseal(k Key, stored []byte) (v []byte, ok bool) {
	if len(stored) == 0 || stored[0] != sealMark {
		return stored, len(stored) == 0 || unsealed(k.Table(), stored[0])
	}
	if len(stored) < sealSize || binary.BigEndian.Uint32(stored[1:]) != checksum(k, stored[sealSize:]) {
		return stored, false
	}
	return stored[sealSize:], true
}

// unchecked is like unseal, but does not compare the value with its checksum.
func unchecked(stored []byte) []byte {
	if len(stored) < sealSize || stored[0] != sealMark {
		return stored
	}
	return stored[sealSize:]
}

// unsealed reports whether the byte first can be the first byte of a value without a checksum in
// table t. If unsealed returns false, the value probably has a checksum, and its mark is damaged.
func unsealed(t Table, first byte) bool {
	switch {
	case t == Unique || t == Events:
		return first == byte(Queues) || first == byte(Deferred) || first == byte(Held)
	case t.known() && tables[t].raw:
		return first >= ' '
	}
	return strings.IndexByte(`{["-0123456789tfn`, first) >= 0
}

// damageOf returns a RecordError if v, the value that a Reader returned under k, did not match its
// checksum.
func damageOf(k Key, v []byte) error {
	if len(v) > 0 && v[0] == sealMark {
		return recordError(k, errChecksum)
	}
	return nil
}
