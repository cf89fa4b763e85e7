package store

// schema is the version of the tables and records of this package. Version 2 has checksums; a record
// of version 1 gets a checksum when it is written again, or when a compaction or a restore copies it.
// Version 3 has the index [Events].
const schema = 3

// upgrade converts a store of an older version, in transactions of bounded size. If the conversion
// is interrupted, the next Open starts it from the beginning.
func upgrade(db *DB) error {
	if db.identity.schema >= 3 {
		return nil
	}
	if err := eachInParts(db, Events, func(tx *Tx, k Key, _ []byte) { tx.Delete(k) }); err != nil {
		return err
	}
	for _, table := range []Table{Queues, Deferred, Held} {
		if err := eachInParts(db, table, func(tx *Tx, k Key, v []byte) {
			if t, err := decodeAt(k, v); err == nil { // the engine later moves unreadable records to the table of damaged records
				indexEvent(tx, t, k)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// eachInParts calls fn for each record of table. eachInParts begins a new transaction whenever the
// budget of the current one is spent.
func eachInParts(db *DB, table Table, fn func(tx *Tx, k Key, v []byte)) error {
	for from := At(table); from != nil; {
		if err := db.Update(func(tx *Tx) error {
			next := Key(nil)
			for k, v := range tx.RangeFrom(At(table), from) {
				if tx.Spent() {
					next = k
					break
				}
				fn(tx, k, v)
			}
			from = next
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
