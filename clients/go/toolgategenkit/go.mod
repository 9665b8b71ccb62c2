module github.com/toolgate/toolgate/clients/go/toolgategenkit

go 1.26.0

require (
	github.com/firebase/genkit/go v1.4.0
	github.com/toolgate/toolgate/clients/go v0.1.0
)

// Within the repository both modules are of one state; whoever requires this one gets what is required above.
replace github.com/toolgate/toolgate/clients/go => ../
