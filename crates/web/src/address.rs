//! Which addresses belong to the public internet, after the registries of IANA for special purposes.
//!
//! *Invariant:* pure. Of IPv6 only what is named as public is public: a range that is given a meaning tomorrow is refused
//! today. An address that carries another one is judged by that one, or refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const PRIVATE: &str = "a private address";
const SHARED: &str = "an address of a carrier's own network";
const LOOPBACK: &str = "a loopback address";
const LINK_LOCAL: &str = "a link-local address";
const UNSPECIFIED: &str = "an unspecified address";
const MULTICAST: &str = "a multicast address";
const BROADCAST: &str = "the broadcast address";
const METADATA: &str = "a cloud's metadata service";
const EXAMPLE: &str = "an address for documentation";
const BENCHMARK: &str = "an address for benchmarks";
const RESERVED: &str = "a reserved address";
const TRANSITION: &str = "an address that carries another one";

/// The first that holds an address decides.
const V4: [(Ipv4Addr, u8, &str); 21] = [
    (Ipv4Addr::new(169, 254, 169, 254), 32, METADATA),
    (Ipv4Addr::new(169, 254, 170, 0), 24, METADATA),
    (Ipv4Addr::new(100, 100, 100, 200), 32, METADATA),
    (Ipv4Addr::new(192, 0, 0, 192), 32, METADATA),
    // Azure's, in the middle of public ones.
    (Ipv4Addr::new(168, 63, 129, 16), 32, METADATA),
    (Ipv4Addr::BROADCAST, 32, BROADCAST),
    (Ipv4Addr::UNSPECIFIED, 8, UNSPECIFIED),
    (Ipv4Addr::new(10, 0, 0, 0), 8, PRIVATE),
    (Ipv4Addr::new(100, 64, 0, 0), 10, SHARED),
    (Ipv4Addr::new(127, 0, 0, 0), 8, LOOPBACK),
    (Ipv4Addr::new(169, 254, 0, 0), 16, LINK_LOCAL),
    (Ipv4Addr::new(172, 16, 0, 0), 12, PRIVATE),
    (Ipv4Addr::new(192, 0, 0, 0), 24, RESERVED),
    (Ipv4Addr::new(192, 0, 2, 0), 24, EXAMPLE),
    (Ipv4Addr::new(192, 88, 99, 0), 24, TRANSITION),
    (Ipv4Addr::new(192, 168, 0, 0), 16, PRIVATE),
    (Ipv4Addr::new(198, 18, 0, 0), 15, BENCHMARK),
    (Ipv4Addr::new(198, 51, 100, 0), 24, EXAMPLE),
    (Ipv4Addr::new(203, 0, 113, 0), 24, EXAMPLE),
    (Ipv4Addr::new(224, 0, 0, 0), 4, MULTICAST),
    (Ipv4Addr::new(240, 0, 0, 0), 4, RESERVED),
];

/// The first that holds an address decides; what none holds is public only in [`GLOBAL`].
const V6: [(Ipv6Addr, u8, &str); 19] = [
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, METADATA),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, METADATA),
    (Ipv6Addr::UNSPECIFIED, 128, UNSPECIFIED),
    (Ipv6Addr::LOCALHOST, 128, LOOPBACK),
    // IPv4-compatible and IPv4-translated ones. Nothing public has had such an address for twenty years.
    (Ipv6Addr::UNSPECIFIED, 96, TRANSITION),
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, TRANSITION),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, TRANSITION),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, RESERVED),
    // Teredo is the first part of what the next line holds.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, TRANSITION),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, BENCHMARK),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, RESERVED),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, EXAMPLE),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, TRANSITION),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, EXAMPLE),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, RESERVED),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, PRIVATE),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, LINK_LOCAL),
    // Site-local: out of use, and still routed here and there.
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, PRIVATE),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, MULTICAST),
];

/// What IANA gives to those who want to be reached.
const GLOBAL: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Where a network that has only IPv6 finds the rest of the world: the last four bytes are an IPv4 address.
const NAT64: (Ipv6Addr, u8) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Returns what an address is if it is not one of the public internet.
pub(super) fn special(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let found = V4.iter().find(|(base, prefix, _)| holds_v4(*base, *prefix, address));
    found.map(|(.., kind)| *kind)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if holds_v6(NAT64.0, NAT64.1, address) {
        let [.., a, b, c, d] = address.octets();
        return special_v4(Ipv4Addr::new(a, b, c, d));
    }
    let found = V6.iter().find(|(base, prefix, _)| holds_v6(*base, *prefix, address));
    match found {
        Some((.., kind)) => Some(kind),
        None => (!holds_v6(GLOBAL.0, GLOBAL.1, address)).then_some(RESERVED),
    }
}

/// Says whether a network holds an address. An IPv4 address that is written as IPv6 is an IPv4 address.
pub(super) fn holds(base: IpAddr, prefix: u8, address: IpAddr) -> bool {
    match (base, address.to_canonical()) {
        (IpAddr::V4(base), IpAddr::V4(address)) => holds_v4(base, prefix, address),
        (IpAddr::V6(base), IpAddr::V6(address)) => holds_v6(base, prefix, address),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

fn holds_v4(base: Ipv4Addr, prefix: u8, address: Ipv4Addr) -> bool {
    let differ = base.to_bits() ^ address.to_bits();
    differ.leading_zeros() >= u32::from(prefix)
}

fn holds_v6(base: Ipv6Addr, prefix: u8, address: Ipv6Addr) -> bool {
    let differ = base.to_bits() ^ address.to_bits();
    differ.leading_zeros() >= u32::from(prefix)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn special_addresses() {
        let check = |expected: Option<&str>, addresses: &[&str]| {
            for address in addresses {
                assert_eq!(special(address.parse().unwrap()), expected, "{address}");
            }
        };
        check(
            Some(LOOPBACK),
            &[
                "127.0.0.1",
                "127.255.255.255",
                "::1",
                "::ffff:127.0.0.1",
                "64:ff9b::7f00:1",
            ],
        );
        check(Some(UNSPECIFIED), &["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"]);
        check(
            Some(PRIVATE),
            &[
                "10.0.0.0",
                "10.255.255.255",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.0.1",
                "fc00::1",
                "fdff::1",
                "fec0::1",
                "feff::1",
                "::ffff:10.0.0.1",
                "64:ff9b::a00:1",
            ],
        );
        check(Some(SHARED), &["100.64.0.0", "100.127.255.255"]);
        check(
            Some(LINK_LOCAL),
            &["169.254.0.1", "169.254.255.255", "fe80::1", "febf::1"],
        );
        check(
            Some(METADATA),
            &[
                "169.254.169.254",
                "169.254.170.2",
                "100.100.100.200",
                "192.0.0.192",
                "168.63.129.16",
                "fd00:ec2::254",
                "fd20:ce::254",
                "::ffff:169.254.169.254",
                "64:ff9b::a9fe:a9fe",
            ],
        );
        check(Some(MULTICAST), &["224.0.0.1", "239.255.255.255", "ff02::1"]);
        check(Some(BROADCAST), &["255.255.255.255"]);
        check(
            Some(EXAMPLE),
            &["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
        );
        check(Some(BENCHMARK), &["198.18.0.1", "198.19.255.255", "2001:2::1"]);
        check(
            Some(RESERVED),
            &[
                "192.0.0.1",
                "240.0.0.1",
                "255.255.255.254",
                "100::1",
                "2001:10::1",
                "5f00::1",
                "4000::1",
                "1::1",
            ],
        );
        check(
            Some(TRANSITION),
            &[
                "192.88.99.1",
                "::127.0.0.1",
                "::8.8.8.8",
                "::ffff:0:127.0.0.1",
                "64:ff9b:1::1",
                "2002:7f00:1::1",
                "2002:808:808::1",
                "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            ],
        );
        check(
            None,
            &[
                "1.1.1.1",
                "8.8.8.8",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "169.253.255.255",
                "169.255.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "192.167.255.255",
                "192.169.0.0",
                "198.17.255.255",
                "198.20.0.0",
                "223.255.255.255",
                "2606:4700::1111",
                "2a00::1",
                "2001:4860:4860::8888",
                "64:ff9b::808:808",
                "::ffff:8.8.8.8",
            ],
        );
    }

    proptest! {
        #[test]
        fn what_carries_an_address_is_not_better_than_it(bits: u32) {
            let inner = Ipv4Addr::from_bits(bits);
            let kind = special(IpAddr::V4(inner));
            prop_assert_eq!(special(IpAddr::V6(inner.to_ipv6_mapped())), kind);
            let [a, b, c, d] = inner.octets().map(u16::from);
            let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a << 8 | b, c << 8 | d);
            prop_assert_eq!(special(IpAddr::V6(nat64)), kind);
            let six_to_four = Ipv6Addr::new(0x2002, a << 8 | b, c << 8 | d, 0, 0, 0, 0, 1);
            prop_assert_eq!(special(IpAddr::V6(six_to_four)), Some(TRANSITION));
            let teredo = Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, !(a << 8 | b), !(c << 8 | d));
            prop_assert_eq!(special(IpAddr::V6(teredo)), Some(TRANSITION));
        }

        #[test]
        fn nothing_outside_the_global_range_is_public(bits: u128) {
            let address = Ipv6Addr::from_bits(bits);
            if bits >> 125 != 1 && !holds_v6(NAT64.0, NAT64.1, address) && address.to_ipv4_mapped().is_none() {
                prop_assert!(special(IpAddr::V6(address)).is_some());
            }
        }
    }
}
