//! Random numbers by their place: any of them without those before it.

/// What the state of SplitMix64 grows by from number to number: 2⁶⁴ over the golden ratio, made odd.
pub(super) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator's finaliser, a bijection in which every bit of the result depends on every bit of `z`.
#[inline]
pub(super) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a generator begun from `state` gives as its number `index`, counted from 1.
#[inline]
pub const fn number(state: u64, index: u64) -> u64 {
    mix(state.wrapping_add(index.wrapping_mul(STEP)))
}

/// Number `index` of the numbers under a key, of which a salt tells apart several uses.
#[inline]
pub const fn keyed(key: u64, salt: u64, index: u64) -> u64 {
    number(mix(number(key, 1).wrapping_add(salt)), index)
}

/// Number `index` of the stream that `seed`, `epoch` and `stream` name.
#[inline]
pub const fn of_epoch(seed: u64, epoch: u64, stream: u64, index: u64) -> u64 {
    let epoch = number(number(seed, 1) ^ epoch.wrapping_mul(STEP), 1);
    // Another odd step, because keys of neighbouring streams must not walk the same numbers.
    number(
        number(epoch ^ stream, 1).wrapping_add(index.wrapping_mul(0xd1b5_4a32_d192_ed03)),
        1,
    )
}

/// What random bits are as a number below `count`; 0 if that is 0.
#[inline]
pub const fn below(bits: u64, count: u64) -> u64 {
    ((bits as u128 * count as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn a_number_is_the_same_alone_as_after_those_before_it() {
        for state in [0, 1, 1_234_567, u64::MAX] {
            let mut random = Random::from_state(state);
            assert!((1..100).all(|index| random.bits() == number(state, index)));
        }
    }

    /// Runs and files of the past were made with these numbers.
    #[test]
    fn numbers_are_what_they_always_were() {
        assert_eq!(keyed(0x0004_0003_0002_0001, 5, 6), 6_252_118_204_380_175_667);
        assert_eq!(of_epoch(1, 2, 3, 4), 5_441_136_648_311_049_297);
    }

    #[test]
    fn numbers_differ_by_every_argument() {
        let all = [
            keyed(1, 1, 1),
            keyed(2, 1, 1),
            keyed(1, 2, 1),
            keyed(1, 1, 2),
            of_epoch(1, 1, 1, 1),
            of_epoch(2, 1, 1, 1),
            of_epoch(1, 2, 1, 1),
            of_epoch(1, 1, 2, 1),
            of_epoch(1, 1, 1, 2),
        ];
        let distinct: std::collections::BTreeSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
