package workflow

// lonely is called from the path and leads nowhere. Its cyclomatic complexity is 16.
func lonely() (n int) {
	for i := range 10 {
		switch {
		case i == 0 && n == 0:
			n++
		case i == 1 || n == 1:
			n--
		case i == 2, i == 3:
			n = 0
		default:
			n += 2
		}
		if func() bool { return i > 4 && n > 4 || n > 5 && i > 5 }() {
			continue
		}
	}
	for n > 10 {
		if n > 20 || n < 30 {
			return n
		}
		if n > 40 {
			return -n
		}
		if n > 50 {
			return 0
		}
	}
	return n
}
