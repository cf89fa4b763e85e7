package store

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// A row is one line of a dump. Fields and parts of keys are renamed as in [dumpNames] and [dumpParts].
type row struct {
	Table string `json:"table"`
	// Key has the parts of the record's key. If the parts do not match the layout of the table, Key
	// has one element: a string of 0x and the whole key in hex.
	Key []any `json:"key"`
	// Value is the record as JSON. If the record is the key of another record, Value is the result
	// of Key.String. If the record is neither JSON nor a key, Value is a string. If Redacted is
	// set, Value is absent, and Bytes is the size of the record in bytes.
	Value    any  `json:"value,omitempty"`
	Redacted bool `json:"redacted,omitempty"`
	Bytes    int  `json:"bytes,omitempty"`
}

// dumpPiece is the number of bytes of lines after which a dump ends one transaction and begins the next.
const dumpPiece = 1 << 20

// Dump writes the records of the given tables as JSON, one record to a line. The tables are in the given order, and the
// records of each table are in the order of their keys. If no tables are given, Dump writes all records, but replaces
// each record that can hold secrets by its size in bytes. The record with the secret for redacted values is always
// replaced in this way. Dump reads a large store in several transactions, and none of them is open while Dump writes to
// w. Otherwise a slow reader of w would keep a transaction open for a long time, and the file of the store would grow.
func Dump(db *DB, w io.Writer, tables ...Table) error {
	prefixes := []Key{nil}
	if len(tables) > 0 {
		prefixes = nil
		for _, t := range tables {
			prefixes = append(prefixes, At(t))
		}
	}
	for _, prefix := range prefixes {
		for from, more := prefix, true; more; {
			lines, next, err := dumpFrom(db, prefix, from, tables)
			if err == nil {
				_, err = w.Write(lines)
			}
			if err != nil {
				return fmt.Errorf("store: dump %s: %w", db.path, err)
			}
			from, more = next, next != nil
		}
	}
	return nil
}

// dumpFrom returns the lines of the records whose keys begin with prefix and are not less than the key from. When there
// are dumpPiece bytes of lines, dumpFrom stops and returns the key of the next record. The key next is nil if there is
// no next record.
func dumpFrom(db *DB, prefix, from Key, tables []Table) (lines []byte, next Key, err error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err = db.View(func(tx *Tx) error {
		for k, v := range tx.RangeFrom(prefix, from) {
			if out.Len() >= dumpPiece {
				next = k
				return nil
			}
			if err := encoder.Encode(newRow(k, v, slices.Contains(tables, k.Table()))); err != nil {
				return err
			}
		}
		return nil
	})
	return out.Bytes(), next, err
}

func newRow(k Key, v []byte, asked bool) row {
	r := row{Table: k.Table().String()}
	var err error
	if r.Key, err = k.split(); err != nil {
		r.Key = []any{"0x" + hex.EncodeToString(k)}
	}
	if len(r.Key) > 0 {
		if shown := dumpParts[k.Table()][r.Key[0]]; shown != "" {
			r.Key[0] = shown
		}
	}
	switch {
	case k.Table().secret() && !asked, bytes.Equal(k, redactionKey()):
		r.Redacted, r.Bytes = true, len(v)
	case k.Table() == Events, k.Table() == Unique && !isCancelMark(k):
		r.Value = Key(v).String()
	case json.Valid(v):
		r.Value = json.RawMessage(v)
		if names := dumpNames[k.Table()]; names != nil {
			r.Value = withNames(v, names, "")
		}
	default:
		r.Value = string(v)
	}
	return r
}

// secret reports whether records of t can hold secrets. For a table that this version does not
// know, secret returns true.
func (t Table) secret() bool { return !t.known() || tables[t].secret }
