module example.org/house

go 1.26
