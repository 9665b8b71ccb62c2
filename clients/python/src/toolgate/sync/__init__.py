"""The client without `async`: each class is a thin shell over its namesake for asyncio.

*Invariant:* no logic of the contract is here; everything runs in one event loop, on one thread in the background.
"""
